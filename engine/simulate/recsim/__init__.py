"""Planning with an assistant: a simulated person with a profile and a situation, after the simulator of RecLLMSim."""
