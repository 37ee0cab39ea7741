package sessions_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
