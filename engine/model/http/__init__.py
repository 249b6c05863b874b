"""Models behind an OpenAI-compatible endpoint that the user named. The only place that asks anything over HTTP.

What is covered: the host and port of a named URL are reached, without proxies and without following redirects, while a
request runs. What is not covered: what the endpoint does with the texts.
"""
