# Tests and figures beyond go test work; see CONTRIBUTING.md.

.PHONY: soak bench newest screenshot plot man completions release-snapshot

# The campaigns of internal/testing/soak/campaign: the suites of thousands, whole. It continues a run that was stopped.
# CAMPAIGN=kills,faults selects some, FOR=1h starts no part after an hour, and FLAGS=-retry, -keep or -list are flags of
# the program.
soak:
	go run ./internal/testing/soak/campaign -campaign "$(CAMPAIGN)" -for "$(or $(FOR),0)" $(FLAGS)

# Every scenario with real agents, on the versions that npm offers today instead of
# those that internal/testing/agentrig/pins.go names.
newest:
	SEGNO_NEWEST=1 SEGNO_SOAK=1 go test -count=1 -timeout 2h -v ./internal/testing/agentrig ./internal/testing/e2e/...

# The figures: ratios against peers and physical limits, in one run.
bench:
	go test -run '^$$' -bench . ./workspace ./store/sqlite ./transcript/claude
	go test -run '^$$' -bench . -benchtime 1x ./internal/testing/e2e/web
	cd bench && GOWORK=off go run .

# The screenshot in docs/web.md, of the page for the demo.
screenshot:
	go test -count=1 ./internal/testing/e2e/web -run TestScreenshot -screenshot "$(CURDIR)/docs/web.png"

# The plot in docs/generations.md, of the experiment commons.
plot:
	d=$$(mktemp -d) && go build -o $$d/segno ./cmd/segno && \
		$$d/segno --store $$d/store generations run experiments/commons.toml --out $$d/runs && \
		$$d/segno generations plot commons --out $$d/runs --svg docs/commons.svg && rm -r $$d

# The man pages and the completion scripts of the shells, for the packages of a release.
man:
	rm -rf build/man && go test -count=1 ./internal/cli -run TestManPages -man "$(CURDIR)/build/man"

completions:
	mkdir -p build/completions
	for s in bash zsh fish; do go run ./cmd/segno completion $$s >build/completions/segno.$$s || exit 1; done

# All artifacts of a release in dist/, without publishing them. It needs goreleaser.
release-snapshot:
	goreleaser release --snapshot --clean
	node npm/build.js dist

# The command with undo, hooks and the page alone, and its size.
.PHONY: lean
lean:
	time go build -tags lean -o build/segno-lean ./cmd/segno
	ls -l build/segno-lean
