package claude_test

import (
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) {
	if os.Getenv(asSQL) != "" {
		sqlMain()
	}
	e2erig.Main(m)
}
