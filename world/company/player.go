package company

import (
	"fmt"
	"hash/fnv"

	"github.com/dalsegno/segno/world"
)

// Player leads a branch by simple rules. Each name has a different style: larger or smaller stock, and
// higher or lower prices.
func Player() world.Player { return world.PlayerOf(choose) }

func choose(o Observation) Action {
	h := fnv.New32a()
	h.Write([]byte(o.Name))
	style := int(h.Sum32() % 3)
	switch o.Part {
	case "night":
		return o.restock(8 + 5*style)
	case "morning":
		return o.talk()
	case "afternoon":
		if accept := o.trade(8 + 5*style); accept.Do != DoPass {
			return accept
		}
	}
	return o.setPrice(8+5*style, int64(style))
}

// restock orders the good with the smallest quantity in stock and on its way.
func (o Observation) restock(target int) Action {
	coming := map[string]int{}
	for _, order := range o.Orders {
		coming[order.Good] += order.Quantity
	}
	best, most := "", 0
	for _, good := range goods() {
		if missing := target - o.You.Stock[good] - coming[good]; missing > most {
			best, most = good, missing
		}
	}
	if best == "" {
		return Action{Do: DoPass}
	}
	quantity := min(most, maxOrder, int(o.You.Cash/2/o.Market[best]))
	if quantity <= 0 {
		return Action{Do: DoPass, Say: "I cannot afford " + best + " at this price."}
	}
	return Action{Do: DoOrder, Good: best, Quantity: quantity}
}

// setPrice raises the price of a good that is short and lowers the price of one that is plentiful.
func (o Observation) setPrice(target int, style int64) Action {
	good := goods()[o.Day%len(goods())]
	percent := 95 + 5*style
	switch stock := o.You.Stock[good]; {
	case o.Fair == good || stock <= target/3:
		percent += 25
	case stock > target:
		percent -= 15
	}
	price := 2 * o.Market[good] * percent / 100
	if price == o.You.Prices[good] {
		return Action{Do: DoPass}
	}
	return Action{Do: DoPrice, Good: good, Price: min(price, maxPrice)}
}

// trade accepts a cheap offer.
func (o Observation) trade(target int) Action {
	for _, offer := range o.Offers {
		isCheap := offer.Price <= o.Market[offer.Good]*6/5 && int64(offer.Quantity)*offer.Price <= o.You.Cash
		if offer.To == o.Name && isCheap && o.You.Stock[offer.Good] < target {
			return Action{Do: DoAccept, Offer: offer.ID}
		}
	}
	return Action{Do: DoPass}
}

// talk offers goods in surplus, asks for missing goods, or reports how business is.
func (o Observation) talk() Action {
	short, plenty := "", ""
	for _, good := range goods() {
		if o.You.Stock[good] == 0 {
			short = good
		}
		if o.You.Stock[good] > 2*firstStock && len(o.Others) > 0 {
			plenty = good
		}
	}
	say := ""
	switch {
	case short != "":
		say = "I am out of " + short + ". Has anyone some left?"
	case o.Fair != "":
		say = "Everybody wants " + o.Fair + " today."
	case o.You.Cash > 2*firstCash:
		say = fmt.Sprintf("Business is good: %s in the till.", money(o.You.Cash))
	}
	if plenty != "" {
		return Action{Do: DoOffer, To: o.Others[o.Day%len(o.Others)], Good: plenty, Quantity: 4, Price: o.Market[plenty] * 11 / 10, Say: say}
	}
	return Action{Do: DoPass, Say: say}
}
