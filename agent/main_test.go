package agent_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/retryrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// The tests run this binary again as another process. That process does the work that
// the environment names, on the store in childDir.
const (
	childDir  = "SEGNO_TEST_STORE"
	childWork = "SEGNO_TEST_WORK"
	childArgs = "SEGNO_TEST_ARGS"
)

func TestMain(m *testing.M) {
	memdir.Use()
	retryrig.Main(openers)
	if dir := os.Getenv(childDir); dir != "" {
		if err := works[os.Getenv(childWork)](context.Background(), dir, os.Getenv(childArgs)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	soak.DrawIfShort()
	goleak.VerifyTestMain(m)
}
