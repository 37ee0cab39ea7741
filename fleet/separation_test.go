package fleet

import (
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
)

func TestAStoreWithTenantsIsRefused(t *testing.T) {
	pool, schema := newPool(t), fmt.Sprintf("fleet_%d", schemas.Add(1))
	owner, err := postgres.OpenOwnerPool(pool, postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if err := owner.CreateTenant(t.Context(), "acme", "", nil); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"", "acme"} {
		f, err := Open(t.Context(), Config{Pool: pool, Schema: schema, Tenant: tenant})
		if err == nil {
			f.Close()
		}
		if segno.KindOf(err) != segno.KindRefused {
			t.Errorf("opening the fleet of %q: %v", tenant, err)
		}
	}
}
