package company_test

import (
	"context"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/company"
	"github.com/dalsegno/segno/world/worldcheck"
	"github.com/dalsegno/segno/world/worldtest"
)

func encode(a company.Action) json.RawMessage {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return data
}

func TestWorld(t *testing.T) {
	names := worldcheck.Names()
	worldtest.Test(t, worldtest.Config{
		Config: worldcheck.Config{
			New: func(context.Context) (segno.World, error) { return company.New(3), nil },
			Say: func(text string) json.RawMessage { return encode(company.Action{Do: company.DoPass, Say: text}) },
		},
		Action: rapid.Custom(func(t *rapid.T) json.RawMessage {
			verbs := []company.Verb{company.DoOrder, company.DoPrice, company.DoOffer, company.DoAccept, company.DoPass, "steal"}
			a := company.Action{
				Do: rapid.SampledFrom(verbs).Draw(t, "do"), Good: rapid.SampledFrom([]string{"beans", "cups", "honey", "gold"}).Draw(t, "good"),
				Quantity: rapid.IntRange(-1, 60).Draw(t, "quantity"), Price: rapid.Int64Range(-1, 1500).Draw(t, "price"),
				To: rapid.SampledFrom(names).Draw(t, "to"), Offer: rapid.IntRange(0, 5).Draw(t, "offer"),
			}
			if rapid.Bool().Draw(t, "talks") {
				a.Say = rapid.String().Draw(t, "say")
			}
			return encode(a)
		}),
	})
}
