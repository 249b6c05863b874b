"""The requests of the model process, answered by endpoints as far as these can do so honestly."""
