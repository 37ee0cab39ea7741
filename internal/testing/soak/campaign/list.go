package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// campaign is a list of suites with one result.
type campaign struct {
	name   string
	about  string
	atOnce int // the number of parts that run at the same time; 0 means one
	where  place
	suites []suite
}

// place selects where the temporary files of tests are. The tests that kill processes and fail writes use a disk, which
// is slow to sync. The tests of agents, pages and logic use memory if there is enough, as they do outside of campaigns.
type place bool

const (
	disk   place = false
	memory place = true
)

// suite selects tests of packages. Each test runs in a separate process.
type suite struct {
	packages string         // directories, separated by spaces; dir/... includes all below it; empty means all packages
	run      *regexp.Regexp // matches the names of the tests
	parts    int            // the number of parts into which package soak divides each test; 0 means one
	cases    int            // the number of cases of each test; 0 means the test's own number for a whole run
	rapid    int            // the same for tests with rapid
	count    int            // how often each test runs
	race     bool           // with the race detector, which needs a C compiler
	fuzz     time.Duration
}

// campaigns returns all campaigns in the order in which they run. A test belongs to the first suite that selects it.
// The last campaign has the remaining tests, so all campaigns together run each test once.
func campaigns() []campaign {
	return []campaign{
		{"ownership", "histories of two agents and a user in one directory: whose each change is", 4, disk, []suite{
			{packages: "internal/hook", run: regexp.MustCompile("^TestAnyOwnership$"), parts: 36, rapid: 9000},
		}},
		{"trees", "random trees of files through pack and unpack", 2, disk, []suite{
			{packages: "internal/pack", run: regexp.MustCompile("^TestAnyTreeMovesUnchanged$"), parts: 5, rapid: 500},
		}},
		{"chaos", "schedules of the proxy in which everything fails", 2, memory, []suite{
			{packages: "internal/proxy", run: regexp.MustCompile("^TestChaos$"), parts: 20},
		}},
		{"fleet", "fleets in which everything fails, and simulated ones of 10,000 workers", 2, memory, []suite{
			{packages: "fleet/chaostest", run: regexp.MustCompile("^TestChaos$"), parts: 50},
			{packages: "fleet fleet/...", run: regexp.MustCompile("^Test")},
		}},
		{"damage", "damage of each store, one at a time: no read returns other data, or none", 2, memory, []suite{
			{packages: "store/sqlite store/file store/kv store/postgres", run: regexp.MustCompile("^TestNo(Damage|FlippedBit)IsSilent$"), parts: 10},
			{packages: "store/... internal/store/record store/internal/threadlog", run: regexp.MustCompile("Damage|Silent|Corrupt")},
		}},
		{"kills", "kill -9 of every verb, hook and store at random moments and between any two writes", 2, disk, []suite{
			{packages: "internal/local", run: regexp.MustCompile("^TestKilledInMid(Move|UndoOfOneTurn|Conversion)$|^TestKilledWhileKeepingAndMoving$"), parts: 20},
			{packages: "internal/web", run: regexp.MustCompile("^TestKilledMove$"), parts: 8},
			{packages: "store/sqlite store/file", run: regexp.MustCompile("^TestKilled$"), parts: 20},
			{packages: "store/postgres store/kv/redis", run: regexp.MustCompile("^TestTheServerIsKilled$|^TestKilled$"), parts: 4},
			{packages: "adapters/eino", run: regexp.MustCompile("^TestKilledGraphs$"), parts: 10},
			{packages: "internal/local internal/hook internal/web internal/pack internal/proxy workspace store/...", run: regexp.MustCompile("Kill|Crash|Dies")},
		}},
		{"faults", "a fault at every point of every durable write", 2, disk, []suite{
			{run: regexp.MustCompile("Fault|EveryFailure|Failures|FailsWhole|FailingDisk|FullDisk|DiskFull|CanBeRepeated|LeavesNothing|" +
				"IsCompleted|OrNotThere|WhateverFails|UnderAnOpenTurn|CannotWrite|StopsAnImport|EveryFailureIsReported")},
			{packages: "agent store/postgres store/kv/redis", run: regexp.MustCompile("^TestACallerThatRunsAgainOnAnyErrorFinishesOnce$")},
		}},
		{"sealed", "sealed stores, archives and spools", 2, disk, []suite{
			{packages: "store/... archive internal/local internal/proxy internal/store/record internal/local/spool", run: regexp.MustCompile("[Ss]eal")},
		}},
		{"archives", "archives: every byte, every operation, every place", 2, memory, []suite{
			{packages: "archive", run: regexp.MustCompile("^TestDeltasOfDeltas$|^TestNoLinksLeadToAPlace$"), parts: 4, rapid: 2000},
			{packages: "archive internal/pack secret internal/testing/e2e/archive", run: regexp.MustCompile("^Test")},
		}},
		{"databases", "attached databases: kills of their moves, and all their tests", 2, disk, []suite{
			{packages: "internal/database cmd/segno", run: regexp.MustCompile("^TestKilledMove(s?OfPostgres)?$"), parts: 10},
			{packages: "internal/database cmd/segno", run: regexp.MustCompile("^Test")},
			{packages: "internal/local", run: regexp.MustCompile("Databases")},
		}},
		{"generations", "generations whose processes are killed, for each kind of world", 2, memory, []suite{
			{packages: "internal/cli", run: regexp.MustCompile("^TestGenerationsSurviveKills$"), parts: 40},
			{packages: "internal/cli", run: regexp.MustCompile("Generation|SurvivesKills|SurviveKills|Experiment|Resumed|CheckpointEvery|FixedOrder|World")},
			{packages: "generation world/... experiments/... internal/worlds/worldagent", run: regexp.MustCompile("^Test")},
		}},
		{"agent", "Go agents: journeys, approvals, callers, histories; deciders under the race detector", 2, memory, []suite{
			{packages: "agent", run: regexp.MustCompile("^TestDecidersBesideARun|^TestFirstOfTwo"), race: true, count: 50},
			{packages: "agent", run: regexp.MustCompile("^TestAnyHistoryIsKept$"), parts: 5, rapid: 5000},
			{packages: "agent/...", run: regexp.MustCompile("^Test")},
		}},
		{"properties", "random tests of the engine against models", 2, memory, []suite{
			{packages: "timeline", run: regexp.MustCompile("^TestUndo(RevertsItsTurnsOnly|OfTurnsAloneMergesAsGit)$|^TestRedos?Lead|^TestMoves(Lead|Keep)|^TestThreadsAndTheUserMove"), parts: 10, rapid: 2000},
			{packages: "internal/local", run: regexp.MustCompile("^TestAnyHistory(UnderRulesOfAnAgent)?$"), parts: 10, rapid: 1000},
			{packages: "workspace", run: regexp.MustCompile("^TestComposeTakesPaths|^TestWithChanges$|^TestMerge(AgreesWithGit|Laws|CanBeReverted)$|^Test(SnapshotAt|Restore)IsExact$"), parts: 4, rapid: 2000},
			{packages: "workspace", run: regexp.MustCompile("^Test(Watched|Served)Scan"), parts: 4},
			{packages: "internal/proxy/preamble", run: regexp.MustCompile("^TestEvery(FactThatFits|Effect)|^TestAddEqualsFromCommits$"), parts: 2, rapid: 5000},
			{packages: "internal/web", run: regexp.MustCompile("^TestLayoutDrawsEachEdge$"), rapid: 5000},
			{packages: "internal/cli", run: regexp.MustCompile("^TestQuotedPathsAreReadBack$"), rapid: 5000},
			{packages: "transcript/claude", run: regexp.MustCompile("^TestCutsKeepTheConversation$"), parts: 4},
			{packages: "workspace/internal/gitignore", run: regexp.MustCompile("^TestTheVerdictsAreGits$"), parts: 4},
			{packages: "store/sqlite", run: regexp.MustCompile("^TestLoadAgain$"), parts: 4},
			{packages: "insight/blame", run: regexp.MustCompile("^TestLinesHaveTheirAuthors$"), parts: 4},
		}},
		{"scenarios", "real agents in both pinned versions, through every scenario", 2, memory, []suite{
			{packages: "internal/testing/e2e/acp internal/testing/e2e/agents internal/testing/e2e/claude internal/testing/e2e/codex internal/testing/e2e/gemini internal/testing/e2e/opencode internal/testing/e2e/sessions internal/testing/e2e/terminal internal/testing/agentrig", run: regexp.MustCompile("^Test")},
		}},
		{"pages", "the page in a browser: all journeys", 1, memory, []suite{
			{packages: "internal/testing/e2e/web internal/web internal/web/export", run: regexp.MustCompile("^Test")},
		}},
		{"fuzzers", "each fuzzer for 30 minutes", 2, disk, []suite{
			{run: regexp.MustCompile("^Fuzz"), parts: 6, fuzz: 30 * time.Minute},
		}},
		{"others", "every test that no campaign above runs", 2, memory, []suite{
			{packages: "workspace", run: regexp.MustCompile("^TestGitCommandLosesNoCommit$"), parts: 8},
			{run: regexp.MustCompile("^Test")},
		}},
	}
}

// selects reports whether the suite selects a test of a package, which is a directory relative to the root of the repository.
func (s suite) selects(pkg, test string) bool {
	isFuzzer := strings.HasPrefix(test, "Fuzz")
	return s.hasPackage(pkg) && isFuzzer == (s.fuzz > 0) && s.run.MatchString(test)
}

func (s suite) hasPackage(pkg string) bool {
	pkg = filepath.ToSlash(pkg)
	for dir := range strings.FieldsSeq(s.packages) {
		tree, isTree := strings.CutSuffix(dir, "/...")
		if pkg == tree || isTree && strings.HasPrefix(pkg, tree+"/") {
			return true
		}
	}
	return s.packages == ""
}

// first returns the suite that runs a test: its campaign and its number there.
func first(all []campaign, pkg, test string) (name string, n int) {
	for _, c := range all {
		for n, s := range c.suites {
			if s.selects(pkg, test) {
				return c.name, n
			}
		}
	}
	return "", 0
}

// buildArgs returns the arguments of go that build the tests of the suite.
func (s suite) buildArgs() []string {
	args := []string{"test", "-c", "-vet=off"}
	if s.race {
		args = append(args, "-race")
	}
	if s.fuzz > 0 {
		args = append(args, "-fuzz=.")
	}
	return args
}
