package millrace

import (
	"slices"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/controllers/serviceaccount"
	"github.com/millrace/millrace/loop"
)

// makesAccounts tells whether a loop makes the accounts that pods need: without one, pods that must have an account could
// not be created.
func (c *Cluster) makesAccounts() bool {
	if len(c.options.Controllers) == 0 {
		return c.options.ControllersElsewhere
	}
	selected, err := loop.Select(controllers.All(controllers.Options{}), c.options.Controllers)
	return err == nil && slices.ContainsFunc(selected, func(e loop.Entry) bool { return e.Name == serviceaccount.Entry.Name })
}
