package file

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// The tests run this binary again as other processes, which work on the store in childDir until
// they finish or are killed.
const (
	childDir  = "SEGNO_TEST_STORE"
	childWork = "SEGNO_TEST_WORK"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		work := map[string]func(context.Context, string) error{"commit": commitUntilKilled, "race": raceOnHead}[os.Getenv(childWork)]
		if err := work(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	soak.DrawIfShort()
	memdir.UseIfShort()
	goleak.VerifyTestMain(m)
}
