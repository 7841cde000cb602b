package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

type level = *flowcontrolv1.PriorityLevelConfiguration

// PriorityLevels limit how many requests are served at a time, and say whether others wait or are rejected.
func PriorityLevels() *resource.Kind {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return resource.Define(resource.Description[level]{
		Group: flowcontrolv1.GroupName, Version: "v1", Kind: "PriorityLevelConfiguration", Resource: "prioritylevelconfigurations",
		UnconditionalUpdate: true,
		Default:             defaultLevel,
		Rules: resource.Rules[level]{
			Validate:       func(_ context.Context, l level) field.ErrorList { return checkLevel(l) },
			ValidateUpdate: func(_ context.Context, l, _ level) field.ErrorList { return checkLevel(l) },
		},
		Status: &resource.Rules[level]{
			PrepareUpdate:  func(_ context.Context, l, old level) { keepMeta(l, old) },
			ValidateUpdate: func(_ context.Context, l, _ level) field.ErrorList { return checkConditions(levelConditions(l)) },
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			table.Text("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			table.Text("Queues", queuing["queues"]),
			table.Text("HandSize", queuing["handSize"]),
			table.Text("QueueLengthLimit", queuing["queueLengthLimit"]),
			table.Age(),
		},
		Row: levelRow,
	})
}

func defaultLevel(l level) {
	if e := l.Spec.Exempt; e != nil {
		fill(&e.NominalConcurrencyShares, 0)
		fill(&e.LendablePercent, 0)
	}
	if m := l.Spec.Limited; m != nil {
		fill(&m.NominalConcurrencyShares, 30)
		fill(&m.LendablePercent, 0)
		if q := m.LimitResponse.Queuing; q != nil {
			q.HandSize, q.Queues, q.QueueLengthLimit = or(q.HandSize, 8), or(q.Queues, 64), or(q.QueueLengthLimit, 50)
		}
	}
}

func fill(p **int32, n int32) {
	if *p == nil {
		*p = &n
	}
}

func or(n, otherwise int32) int32 {
	if n == 0 {
		return otherwise
	}
	return n
}

func levelRow(l level) resource.Row {
	var shares, queues, hand, length any = table.None, table.None, table.None, table.None
	if m := l.Spec.Limited; m != nil {
		shares = *m.NominalConcurrencyShares
		if q := m.LimitResponse.Queuing; q != nil {
			queues, hand, length = q.Queues, q.HandSize, q.QueueLengthLimit
		}
	}
	return resource.Row{Cells: []any{l.Name, string(l.Spec.Type), shares, queues, hand, length, table.Since(l.CreationTimestamp)}}
}

func levelConditions(l level) []string {
	var types []string
	for _, c := range l.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return types
}
