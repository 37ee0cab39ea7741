package agentrig_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		used, err := agentrig.UseNewest(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(used)
	}
	os.Exit(m.Run())
}
