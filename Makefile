# Tests and figures beyond go test work; see CONTRIBUTING.md.

.PHONY: soak bench newest screenshot recording plot release publish

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

# The screenshot in docs/web.md, of the page for the demo; and in build/page the views of the page for 30 turns with forks,
# undone lines and a conflict, in three sizes and both themes, for a review by eye.
screenshot:
	go test -count=1 ./internal/testing/e2e/web -run 'TestScreenshot|TestGallery' -screenshot "$(CURDIR)/docs/web.png" -gallery "$(CURDIR)/build/page"

# The animation in the README, of a first session with Claude Code.
recording:
	go test -count=1 ./internal/testing/e2e/terminal -run TestRecording -recording "$(CURDIR)/docs/demo.svg"

# The plot in docs/generations.md, of the experiment commons.
plot:
	d=$$(mktemp -d) && go build -o $$d/segno ./cmd/segno && \
		$$d/segno --store $$d/store generations run experiments/commons.toml --out $$d/runs && \
		$$d/segno generations plot commons --out $$d/runs --svg docs/commons.svg && rm -r $$d

# All files of a release in dist/, without a network and without publishing them; docs/releasing.md describes them.
release:
	go run ./release -out dist $(FLAGS)

# Publishes the files in dist/. It needs gh and npm, logged in.
publish:
	go run ./release -out dist -publish

# The command with undo, hooks and the page alone, and its size.
.PHONY: lean
lean:
	time go build -tags lean -o build/segno-lean ./cmd/segno
	ls -l build/segno-lean
