"""From what logs call a message to messages: roles, parts, tool calls, in the forms of all chat APIs."""
