"""The screens, built with Textual. Of the engine they call services, and know records."""
