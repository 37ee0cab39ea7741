package local_test

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// sealUntilKilled seals and unseals a store until the process is killed, and prints a line before each conversion.
func sealUntilKilled(dir string) {
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"), Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")},
		Now: time.Now}
	for {
		os.Stdout.WriteString("begins\n")
		_, err := place.SealStore(context.Background(), local.SealOptions{KeyFile: filepath.Join(dir, "key")})
		if err == nil || strings.Contains(err.Error(), "sealed already") {
			_, err = place.UnsealStore(context.Background(), nil)
		}
		if err != nil {
			os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
	}
}

// TestKilledInMidConversion repeatedly kills a process that seals and unseals. The next command finds one of the two
// complete forms, and completes or undoes the conversion.
func TestKilledInMidConversion(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel() // it mostly waits
	kills := 20
	g, _ := threeTurns(t)
	g.keyFile("key")
	before := g.records()
	sealed := 0
	for i := range soak.Count(t, kills, 2000) {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "SEGNO_TEST_SEALS="+filepath.Dir(g.project))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan()
		killed := time.AfterFunc(time.Duration(rand.IntN(400_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatalf("kill %d: %s", i, lines.Text())
			}
		}
		killed.Stop()
		_ = cmd.Wait() // the error is that it was killed
		if after := g.records(); after != before {
			t.Fatalf("kill %d: before:\n%s\nafter:\n%s", i, before, after)
		}
		g.wantNothingConverting()
		if g.isSealed() {
			sealed++
			if found := g.find("claude", `"prompt"`); len(found) > 0 {
				t.Errorf("kill %d: found %q", i, found)
			}
		}
	}
	t.Logf("after %d of %d kills the store was sealed", sealed, kills)
	g.checkStore()
}
