package placement_test

import (
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/rules"
)

func defaultRules() *ruleset.Set {
	set, err := ruleset.Compile(rules.Defaults())
	if err != nil {
		panic(err)
	}
	return set
}
