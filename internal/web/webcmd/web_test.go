package webcmd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func TestAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = net.Listen("tcp", l.Addr().String())
	if text := errListen(l.Addr().String(), err).Error(); !strings.Contains(text, "the port is in use") {
		t.Error(text)
	}
}

// TestATokenFileSurvivesFaults fails each disk operation in turn. The file then has a whole token, or does not exist.
func TestATokenFileSurvivesFaults(t *testing.T) {
	for n := 0; ; n++ {
		path := filepath.Join(t.TempDir(), "token")
		faults := faultfs.FailAt(n)
		_, err := tokenIn(faults.Wrap(vfs.OS), path)
		token, again := tokenIn(vfs.OS, path)
		if again != nil || len(token) < minToken {
			t.Fatalf("after the failure of operation %d: %q, %v", n, token, again)
		}
		if !faults.Fired() {
			return
		}
		if err == nil {
			t.Errorf("the failure of operation %d is not reported", n)
		}
	}
}
