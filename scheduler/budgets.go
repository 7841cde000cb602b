package scheduler

import (
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/scheduler/internal/preemption"
)

// budgets are the disruption budgets, as the watch shows them.
type budgets struct {
	known map[informer.Key]preemption.Budget
	list  []preemption.Budget // of known; nil if it has changed
	stand preemption.Stand
}

// all returns the budgets there are.
func (b *budgets) all() []preemption.Budget {
	if b.list == nil {
		for _, budget := range b.known {
			b.list = append(b.list, budget)
		}
	}
	return b.list
}

// set takes in what has become of one; protects says whether it protects pods.
func (b *budgets) set(key informer.Key, now preemption.Budget, protects bool) {
	was, known := b.known[key]
	if !known && !protects {
		return
	}
	b.list = nil
	b.stand.Counts++
	if known != protects || !was.Same(&now) {
		b.stand.Sets++
	}
	if protects {
		b.known[key] = now
	} else {
		delete(b.known, key)
	}
}

// followBudgets joins the informer of disruption budgets.
func (t *term) followBudgets() audience {
	objects := t.options.Watched.Budgets
	if objects == nil {
		return nil
	}
	return audience{follow(t, objects, func(key informer.Key) {
		var now preemption.Budget
		object, protects := objects.Lookup(key)
		if protects {
			now, protects = preemption.BudgetOf(object)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.budgets.set(key, now, protects)
	})}
}
