package cause

import (
	"context"
	"fmt"
	"strconv"
)

// Change is one change of one object, as it is read in a list or a watch.
type Change struct {
	// Resource is the kind of the object by its plural and its group, such as replicasets.apps. Pods are pods.
	Resource string
	// Namespace is empty for objects without one.
	Namespace string
	Name      string
	// Revision is the resource version that the change gave to the object, or with which it was deleted.
	Revision uint64
}

// Of returns the change that made a version of an object.
func Of(resource string, object interface {
	GetNamespace() string
	GetName() string
	GetResourceVersion() string
}) Change {
	return At(resource, object.GetNamespace(), object.GetName(), object.GetResourceVersion())
}

// At returns the change that made a version of an object, by its parts.
func At(resource, namespace, name, resourceVersion string) Change {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		revision = 0 // from a test double or an unusual server
	}
	return Change{Resource: resource, Namespace: namespace, Name: name, Revision: revision}
}

// Most is the number of changes that a cause names. If there were more, it has the first one and the last ones.
const Most = 4

// Cause is why a program acts.
type Cause struct {
	// Loop is what acts, such as deployment.
	Loop string
	// Key is which of its keys the loop works on.
	Key string
	// Changes are what has woken the loop for the key since it worked on it last, as they came.
	Changes []Change
	// Count is the number of changes that there were.
	Count int
	// Told says in words what has woken the loop, if that was no change of an object: such as the end of a process.
	Told string
	// Timer says that a time has come that was set when the loop worked on the key before. Then Changes are the causes
	// of that work.
	Timer bool
	// Retry says that the work is done again after a failure. Then Changes are the causes of the first attempt, too.
	Retry bool
	// Resync says that nothing has changed, and the loop looks at everything again.
	Resync bool
	// Decision is what the loop decided by, in words.
	Decision string
}

// Add adds a change. One without a revision says that everything is looked at again.
func (c *Cause) Add(change Change) {
	if change.Revision == 0 {
		c.Resync = true
		return
	}
	if n := len(c.Changes); n > 0 && c.Changes[n-1] == change {
		return // two watches of a loop may tell the same
	}
	c.Count++
	c.append(change)
}

func (c *Cause) append(change Change) {
	if len(c.Changes) < Most {
		c.Changes = append(c.Changes, change)
		return
	}
	copy(c.Changes[1:], c.Changes[2:])
	c.Changes[Most-1] = change
}

// Merge adds what another cause has: changes, and what woke the work.
func (c *Cause) Merge(other *Cause) {
	for _, change := range other.Changes {
		c.append(change)
	}
	c.Count += other.Count
	if other.Told != "" {
		c.Told = other.Told
	}
	c.Timer, c.Retry, c.Resync = c.Timer || other.Timer, c.Retry || other.Retry, c.Resync || other.Resync
}

// Clone returns a copy that shares nothing.
func (c *Cause) Clone() *Cause {
	clone := *c
	clone.Changes = append([]Change(nil), c.Changes...)
	return &clone
}

type causeKey struct{}

// With returns a context for requests that have a cause. The cause must not be changed after that.
func With(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, func() Cause { return c })
}

// Working returns the context of the work on a key of a loop. The key is made a text when a request needs it.
func Working(ctx context.Context, loop string, key any, by *Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, func() Cause {
		c := Cause{Loop: loop, Key: fmt.Sprint(key)}
		if by != nil {
			c.Changes, c.Count, c.Told, c.Timer, c.Retry, c.Resync = by.Changes, by.Count, by.Told, by.Timer, by.Retry, by.Resync
		}
		return c
	})
}

// Deciding returns a context for requests that follow from a decision.
func Deciding(ctx context.Context, decision string) context.Context {
	c, _ := From(ctx)
	c.Decision = decision
	return With(ctx, c)
}

// From returns the cause that a context has.
func From(ctx context.Context) (Cause, bool) {
	of, ok := ctx.Value(causeKey{}).(func() Cause)
	if !ok {
		return Cause{}, false
	}
	return of(), true
}
