import httpx

ADA = {"externalCustomerId": "ext-1", "person": {"pinCode": "1234", "password": "enchantress"}}


async def test_created_customer_gets_an_id(client: httpx.AsyncClient) -> None:
    """The reply to a creation has the new id and the external id, and no secret."""
    reply = await client.post("/customer/1.0.0/create", json=ADA)

    assert reply.status_code == 200
    assert reply.json() == {"customerId": "customer-0005", "externalCustomerId": "ext-1"}


async def test_customer_without_an_external_id_is_created_each_time(
    client: httpx.AsyncClient,
) -> None:
    """Without an external id, or with null, each request creates another customer."""
    first = await client.post("/customer/1.0.0/create", json={})
    second = await client.post("/customer/1.0.0/create", json={"externalCustomerId": None})

    assert first.json() == {"customerId": "customer-0005", "externalCustomerId": None}
    assert second.json() == {"customerId": "customer-0006", "externalCustomerId": None}


async def test_external_id_is_unique_per_tenant(client: httpx.AsyncClient) -> None:
    """The same external id is a conflict in one tenant and not in another."""
    await client.post("/customer/1.0.0/create", json=ADA)

    again = await client.post("/customer/1.0.0/create", json=ADA)
    elsewhere = await client.post("/customer/1.0.0/create", json=ADA, headers={"tenantId": "other"})

    assert again.status_code == 409
    assert again.json()["message"] == "a customer with this externalCustomerId already exists"
    assert elsewhere.status_code == 200


async def test_creation_requires_a_tenant(client: httpx.AsyncClient) -> None:
    """A creation without the header tenantId, or with a blank one, is refused."""
    blank = await client.post("/customer/1.0.0/create", json=ADA, headers={"tenantId": " "})
    del client.headers["tenantId"]
    missing = await client.post("/customer/1.0.0/create", json=ADA)

    for reply in (blank, missing):
        assert reply.status_code == 400
        assert reply.json()["message"] == "the header tenantId is required"


async def test_misspelt_field_is_refused_by_its_path(client: httpx.AsyncClient) -> None:
    """A field that the interface does not have is refused by its path, without its value."""
    body = {"person": {"pincode": "1234"}}

    reply = await client.post("/customer/1.0.0/create", json=body)

    assert reply.status_code == 400
    assert reply.json()["message"] == "$.person.pincode is not a field of the interface"
    assert "1234" not in reply.text


async def test_revisions_apply_in_their_order(client: httpx.AsyncClient) -> None:
    """Of two values for one key the later one stays, and other revisions stay too."""
    path = "/customer/1.0.0/update/customer-0001/revisions"
    await client.post(path, json={"revisions": [{"key": "city", "value": "Bonn"}]})

    revisions = [{"key": "name", "value": "A"}, {"key": "name", "value": "B"}]
    reply = await client.post(path, json={"revisions": revisions})

    assert reply.status_code == 200
    assert reply.json() == {
        "customerId": "customer-0001",
        "current": {"city": "Bonn", "name": "B"},
    }


async def test_no_revision_is_refused(client: httpx.AsyncClient) -> None:
    """As the SDK refuses it."""
    reply = await client.post("/customer/1.0.0/update/any/revisions", json={"revisions": []})

    assert reply.status_code == 400
    assert reply.json()["message"] == "$.revisions is empty"


async def test_unknown_customer_is_not_revised(client: httpx.AsyncClient) -> None:
    """Revisions of a customer that does not exist get 404."""
    reply = await client.post(
        "/customer/1.0.0/update/customer-9999/revisions",
        json={"revisions": [{"key": "a", "value": "b"}]},
    )

    assert reply.status_code == 404
    assert reply.json()["message"] == "no such customer"
