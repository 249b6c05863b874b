"""The screens, built with Textual. They call the engine through `engine.services` only."""
