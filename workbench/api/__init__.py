"""The public Python API: thin functions over the services, documented in docs/python.md. Import it from `workbench`."""
