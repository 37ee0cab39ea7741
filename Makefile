# Tests and figures beyond go test work; see CONTRIBUTING.md.

.PHONY: soak bench newest

# The suites of thousands, whole: property tests, kill -9, every fault.
soak:
	SEGNO_SOAK=1 go test -timeout 3h work

# Every scenario with real agents, on the versions that npm offers today instead of
# those that internal/testing/agentrig/pins.go names.
newest:
	SEGNO_NEWEST=1 go test -count=1 -v ./internal/testing/agentrig ./internal/e2e/...

# The figures: ratios against peers and physical limits, in one run.
bench:
	go test -run '^$$' -bench . ./workspace ./store/sqlite ./transcript/claude
	cd bench && GOWORK=off go run .
