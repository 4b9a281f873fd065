"""The request bodies of the interface, field by field, copied out by hand from its tables.

Written from the interface and not from the SDK's models, so that a misspelt name there fails here.
"""

from gateway_sdk.sandbox.shapes import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULLABLE_INT64,
    NULLABLE_STRING,
    STRING,
    Many,
    Record,
)

# Interface: Resources, Name object
NAME = Record(
    {
        "name": NULLABLE_STRING,
        "order": NULLABLE_INT64,
        "abbreviation": NULLABLE_STRING,
        "language": NULLABLE_STRING,
        "native": NULLABLE_STRING,
        "suffix": NULLABLE_STRING,
        "prefix": NULLABLE_STRING,
    }
)

# Interface: Resources, NotificationsItem
NOTIFICATIONS_ITEM = Record(
    {
        "notificationType": NULLABLE_STRING,
        "isEnabled": BOOLEAN,
    }
)

# Interface: Resources, MetadataItem and AdditionalDataItem
METADATA_ITEM = ADDITIONAL_DATA_ITEM = Record(
    {
        "name": NULLABLE_STRING,
        "type": NULLABLE_STRING,
        "value": NULLABLE_STRING,
    }
)

# Interface: Resources, DocumentsItem
DOCUMENTS_ITEM = Record(
    {
        "purpose": NULLABLE_STRING,
        "name": NULLABLE_STRING,
        "verificationResponse": ANYTHING,
        "documentType": NULLABLE_STRING,
        "location": NULLABLE_STRING,
        "status": NULLABLE_STRING,
        "metadata": Many(METADATA_ITEM),
    }
)

# Interface: Resources, TelephoneNumbersItem
TELEPHONE_NUMBERS_ITEM = Record(
    {
        "phoneType": NULLABLE_STRING,
        "operator": NULLABLE_STRING,
        "encoding": NULLABLE_STRING,
        "country": NULLABLE_STRING,
        "number": NULLABLE_STRING,
        "purpose": NULLABLE_STRING,
    }
)

# Interface: Resources, SecretQuestionItem
SECRET_QUESTION_ITEM = Record(
    {
        "question": NULLABLE_STRING,
        "answer": NULLABLE_STRING,
    }
)

# Interface: Resources, below Address
GEO_POSITION = Record(
    {
        "latitude": NULLABLE_INT64,
        "longitude": NULLABLE_INT64,
        "altitude": NULLABLE_INT64,
    }
)
ALTERNATIVE = Record(
    {
        "word1": NULLABLE_STRING,
        "word2": NULLABLE_STRING,
        "word3": NULLABLE_STRING,
    }
)
RELATED_TO_ADDRESS_ITEM = Record({"relationType": NULLABLE_STRING})

# Interface: Resources, Address
ADDRESS = Record(
    {
        "country": NULLABLE_STRING,
        "area": NULLABLE_STRING,
        "city": NULLABLE_STRING,
        "zipCode": NULLABLE_STRING,
        "street": NULLABLE_STRING,
        "streetNumber": Many(STRING),
        "building": NULLABLE_STRING,
        "apartment": NULLABLE_STRING,
        "entrance": NULLABLE_STRING,
        "floor": NULLABLE_STRING,
        "doorNumber": NULLABLE_STRING,
        "geoPosition": GEO_POSITION,
        "alternative": ALTERNATIVE,
        "relatedToAddress": Many(RELATED_TO_ADDRESS_ITEM),
        "additionalData": Many(ADDITIONAL_DATA_ITEM),
    }
)

# Interface: Resources, AddressesItem
ADDRESSES_ITEM = Record(
    {
        "addresspurpose": NULLABLE_STRING,
        "address": ADDRESS,
    }
)

# Interface: Resources, PersonData
PERSON_DATA = Record(
    {
        "firstName": NAME,
        "lastName": NAME,
        "gender": NULLABLE_STRING,
        "dateOfBirth": NULLABLE_STRING,
        "placeOfBirth": NULLABLE_STRING,
        "nationality": NULLABLE_STRING,
        "pinCode": NULLABLE_STRING,
        "password": NULLABLE_STRING,
        "fullName": NULLABLE_STRING,
        "email": NULLABLE_STRING,
        "groupId": NULLABLE_STRING,
        "documents": Many(DOCUMENTS_ITEM),
        "telephoneNumbers": Many(TELEPHONE_NUMBERS_ITEM),
        "SecretQuestion": Many(SECRET_QUESTION_ITEM),
        "addresses": Many(ADDRESSES_ITEM),
    }
)

# Interface: Resources, Customer creation request
CREATE_REQUEST = Record(
    {
        "customerType": NULLABLE_STRING,
        "customerName": NULLABLE_STRING,
        "externalCustomerId": NULLABLE_STRING,
        "customerStatus": NULLABLE_STRING,
        "categorization": NULLABLE_STRING,
        "person": PERSON_DATA,
        "notifications": Many(NOTIFICATIONS_ITEM),
        "isB2B": BOOLEAN,
        "sharePercentage": NULLABLE_INT64,
        "ultimatePercentage": NULLABLE_INT64,
        "isDirector": BOOLEAN,
    }
)

# Interface: Resources, Revision entry; Endpoints 2
REVISION = Record({"key": STRING, "value": STRING}, complete=True)
REVISIONS = Record({"revisions": Many(REVISION)}, complete=True)

# Interface: Resources, Exchange rate series request
EXCHANGE_RATE_SERIES = Record(
    {
        "base": STRING,
        "symbols": STRING,
        "startDate": STRING,
        "endDate": STRING,
    },
    complete=True,
)

# Interface: Resources, Order history page request
ORDER_HISTORY_PAGE = Record({"page": INTEGER, "take": INTEGER}, complete=True)

# The sandbox's own reading of the body of Endpoints 8, which the interface leaves open.
DOCUMENT_STATUS = Record({"status": STRING}, complete=True)
