package rules

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/devices"
)

// maxDoubts is the maximum number of expressions for which is kept where they fail.
const maxDoubts = 100

// doubt is where the evaluation of an expression fails: an attribute may be missing there.
type doubt struct {
	changes uint64 // of slices, when it was found out
	fails   map[*resourcev1.ResourceSlice]bool
	nodes   map[string]bool // with such a slice of their own
	all     bool            // such a slice may be of any node
}

// Doubtful implements [plugin.Doubter]: kube-scheduler evaluates the selectors on all nodes, so that an error on one of
// them is found. Here that is done for the nodes with a device on which a selector fails.
func (a *allocation) Doubtful() func(*cluster.Node) bool {
	var doubts []*doubt
	for expression := range a.selectors() {
		if d := a.rule.doubt(expression, &a.state.Devices); d.all || len(d.nodes) > 0 {
			doubts = append(doubts, d)
		}
	}
	if len(doubts) == 0 {
		return nil
	}
	return func(node *cluster.Node) bool {
		for _, d := range doubts {
			if d.all || d.nodes[node.Name] {
				return true
			}
		}
		return false
	}
}

// selectors are the expressions that select devices for the claims without devices.
func (a *allocation) selectors() map[string]bool {
	expressions := make(map[string]bool)
	add := func(class string, selectors []resourcev1.DeviceSelector) {
		if c, err := a.state.Devices.Get(class); err == nil {
			selectors = append(selectors[:len(selectors):len(selectors)], c.Spec.Selectors...)
		}
		for _, s := range selectors {
			if s.CEL != nil {
				expressions[s.CEL.Expression] = true
			}
		}
	}
	for _, resource := range a.special.resourceNames() {
		if class := a.state.Devices.ClassOf(resource); class != nil {
			add(class.Name, nil)
		}
	}
	for _, c := range a.open {
		for i := range c.Spec.Devices.Requests {
			r := &c.Spec.Devices.Requests[i]
			if r.Exactly != nil {
				add(r.Exactly.DeviceClassName, r.Exactly.Selectors)
			}
			for j := range r.FirstAvailable {
				add(r.FirstAvailable[j].DeviceClassName, r.FirstAvailable[j].Selectors)
			}
		}
	}
	return expressions
}

// doubt returns where an expression fails. Each slice is evaluated once.
func (d *Devices) doubt(expression string, state *devices.State) *doubt {
	before := d.doubts[expression]
	if before != nil && before.changes == state.SliceChanges() {
		return before
	}
	if before == nil {
		before = &doubt{}
	}
	now := &doubt{changes: state.SliceChanges(), fails: make(map[*resourcev1.ResourceSlice]bool), nodes: make(map[string]bool)}
	compiled := d.expressions.GetOrCompile(expression)
	for slice := range state.Slices() {
		fails, known := before.fails[slice]
		if !known {
			fails = compiled.Error != nil || failsOn(slice, &compiled)
		}
		now.fails[slice] = fails
		switch {
		case !fails:
		case slice.Spec.NodeName != nil:
			now.nodes[*slice.Spec.NodeName] = true
		default:
			now.all = true
		}
	}
	if len(d.doubts) >= maxDoubts {
		clear(d.doubts)
	}
	d.doubts[expression] = now
	return now
}

// failsOn reports whether an expression fails on one of a slice's devices.
func failsOn(slice *resourcev1.ResourceSlice, compiled *cel.CompilationResult) bool {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		input := cel.Device{Driver: slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity}
		if _, _, err := compiled.DeviceMatches(context.Background(), input); err != nil {
			return true
		}
	}
	return false
}
