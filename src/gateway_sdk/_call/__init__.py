"""One call: its token, its attempts, its retries and its deadline; and what calls share."""
