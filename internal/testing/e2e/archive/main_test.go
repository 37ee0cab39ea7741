package archive_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) { e2erig.Main(m) }
