package kv_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
)

// TestNoDamageIsSilent damages each value in turn, at a random place: a bit, a page, the end, or all of it.
// Each later read must return the data that was written, or an error of another kind than
// [segno.KindNotFound]. Only a look-up, an object or a lease whose whole value is missing may be not found:
// see the package comment.
func TestNoDamageIsSilent(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, able := range map[string]func(*kvtest.Map) kv.KV{"plain": plain, "batch": able} {
		t.Run(name, func(t *testing.T) {
			m := kvtest.NewMap(noon)
			trial := storetest.NewDamageTrial(t, mustOpen(t, able(m), kv.Options{}))
			items := itemsOf(t, m)
			for _, seed := range soak.Seeds(t, len(items)/3, 2500) { // four damages each
				x := items[seed%uint64(len(items))]
				at := rand.New(rand.NewPCG(seed, 9)).IntN(max(1, len(x.Val)))
				for what, val := range map[string][]byte{"a bit": flip(x.Val, at), "a page": withZeroPage(x.Val, at), "the end": x.Val[:at], "the value": nil} {
					switch {
					case slices.Equal(val, x.Val) && val != nil:
						continue
					case val != nil:
						set(t, m, x.Key, val)
					case !strings.HasPrefix(x.Key, "t{") || strings.HasSuffix(x.Key, "}lease"):
						continue
					default:
						if err := m.Delete(t.Context(), x.Key, kv.RevAny); err != nil {
							t.Fatal(err)
						}
					}
					s, err := kv.Open(t.Context(), able(m), kv.Options{})
					if err != nil {
						t.Fatal(err)
					}
					if silent := trial.Silent(t.Context(), s); silent != "" {
						t.Errorf("seed %d: %s of %s: %s", seed, what, x.Key, silent)
					}
				}
				set(t, m, x.Key, x.Val)
			}
		})
	}
}

func withZeroPage(val []byte, at int) []byte {
	out := slices.Clone(val)
	clear(out[at/4096*4096 : min(at/4096*4096+4096, len(out))])
	return out
}

func itemsOf(t *testing.T, m *kvtest.Map) (items []kv.Item) {
	t.Helper()
	for item, err := range m.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}
