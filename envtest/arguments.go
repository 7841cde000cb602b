package envtest

import (
	"maps"
	"slices"
)

// Arg is the values of one flag.
type Arg interface {
	// Append returns the argument with further values.
	Append(vals ...string) Arg
	// Get returns all values, given those that the flag has by default. Nil leaves the flag out; no values at all give
	// it without one.
	Get(defaults []string) []string
}

// Arguments are flags that a suite changes. All methods that change them return the same Arguments, for calls in a
// chain.
type Arguments struct {
	values map[string]Arg
}

// EmptyArguments are no flags.
func EmptyArguments() *Arguments { return &Arguments{values: map[string]Arg{}} }

// values take the place of the defaults; added are given after them.
type (
	values    []string
	added     []string
	left      struct{}
	nameAlone struct{}
)

func (v values) Append(vals ...string) Arg     { return append(slices.Clip(v), vals...) }
func (v values) Get([]string) []string         { return v }
func (a added) Append(vals ...string) Arg      { return append(slices.Clip(a), vals...) }
func (a added) Get(defaults []string) []string { return append(slices.Clone(defaults), a...) }
func (left) Append(vals ...string) Arg         { return values(vals) }
func (left) Get([]string) []string             { return nil }
func (nameAlone) Append(...string) Arg         { return nameAlone{} }
func (nameAlone) Get([]string) []string        { return []string{} }

// Get returns a flag.
func (a *Arguments) Get(key string) Arg {
	if v, ok := a.values[key]; ok {
		return v
	}
	return added(nil)
}

// Enable gives a flag without a value.
func (a *Arguments) Enable(key string) *Arguments { return a.SetRaw(key, nameAlone{}) }

// Disable leaves a flag out.
func (a *Arguments) Disable(key string) *Arguments { return a.SetRaw(key, left{}) }

// Append gives a flag further values after those of before or, if there were none, after its defaults.
func (a *Arguments) Append(key string, vals ...string) *Arguments {
	return a.SetRaw(key, a.Get(key).Append(vals...))
}

// AppendNoDefaults is Append without the defaults.
func (a *Arguments) AppendNoDefaults(key string, vals ...string) *Arguments {
	if old, ok := a.values[key]; ok {
		return a.SetRaw(key, old.Append(vals...))
	}
	return a.Set(key, vals...)
}

// Set gives a flag these values alone.
func (a *Arguments) Set(key string, vals ...string) *Arguments { return a.SetRaw(key, values(vals)) }

// SetRaw sets a flag to an argument.
func (a *Arguments) SetRaw(key string, val Arg) *Arguments {
	a.values[key] = val
	return a
}

// AsStrings are the flags as a command line has them, sorted, given the defaults of all of them.
func (a *Arguments) AsStrings(defaults map[string][]string) []string {
	var all []string
	for _, key := range a.keys(defaults) {
		vals := a.Get(key).Get(defaults[key])
		if vals != nil && len(vals) == 0 {
			all = append(all, "--"+key)
		}
		for _, v := range vals {
			all = append(all, "--"+key+"="+v)
		}
	}
	return all
}

// keys are the flags that are given or have defaults.
func (a *Arguments) keys(defaults map[string][]string) []string {
	all := map[string]bool{}
	for key := range defaults {
		all[key] = true
	}
	for key := range a.values {
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}
