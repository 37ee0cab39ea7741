# What does not fit go test ./...; see README.

.PHONY: soak bench

# The suites of thousands, whole: property tests, kill -9, every fault.
soak:
	SEGNO_SOAK=1 go test -timeout 3h ./...

# The figures: ratios against peers and physical limits, in one run.
bench:
	go test -run '^$$' -bench . ./workspace ./store/sqlite ./transcript
	cd bench && GOWORK=off go run .
