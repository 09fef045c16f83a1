module agentgym

go 1.19
