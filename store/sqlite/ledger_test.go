package sqlite

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/ledgertest"
)

// TestLedger runs the cases of internal/ledger on a database.
func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store {
		s := openIn(t, t.TempDir(), Options{})
		t.Cleanup(func() { s.Close() })
		return s
	}, true)
}
