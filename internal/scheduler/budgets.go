package scheduler

import (
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
)

// budgets are the disruption budgets in the watch.
type budgets struct {
	known   map[informer.Key]preemption.Budget
	list    []preemption.Budget // the values of known; nil if they have changed
	version preemption.BudgetVersion
}

// all returns all budgets.
func (b *budgets) all() []preemption.Budget {
	if b.list == nil {
		for _, budget := range b.known {
			b.list = append(b.list, budget)
		}
	}
	return b.list
}

// set adds, changes or removes a budget; protects is whether it exists and selects pods.
func (b *budgets) set(key informer.Key, now preemption.Budget, protects bool) {
	was, known := b.known[key]
	if !known && !protects {
		return
	}
	b.list = nil
	b.version.Counts++
	if known != protects || !was.Same(&now) {
		b.version.Sets++
	}
	if protects {
		b.known[key] = now
	} else {
		delete(b.known, key)
	}
}

// followBudgets adds a handler to the informer of disruption budgets.
func (k *knowledge) followBudgets() registrations {
	objects := k.options.Watched.Budgets
	if objects == nil {
		return nil
	}
	return registrations{follow(k, objects, func(key informer.Key) string {
		var now preemption.Budget
		object, protects := objects.Lookup(key)
		if protects {
			now, protects = preemption.BudgetOf(object)
		}
		k.lock()
		defer k.mu.Unlock()
		k.budgets.set(key, now, protects)
		return ""
	})}
}
