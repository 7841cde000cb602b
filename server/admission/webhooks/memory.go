package webhooks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// memory is what is kept of a change until its second round.
type memory struct {
	// invoked are webhooks that want to be called again if the object changes after them, and required those for which it has.
	invoked  []string
	required map[string]bool
	last     resource.Object // as it was after the last webhook
}

func memoryOf(c *registry.Change) *memory {
	if m, ok := c.Kept[mutatingName].(*memory); ok {
		return m
	}
	m := &memory{required: map[string]bool{}}
	c.Keep(mutatingName, m)
	return m
}

// requireAll lets all that were called so far, and want to, be called again.
func (m *memory) requireAll() {
	for _, id := range m.invoked {
		m.required[id] = true
	}
	m.invoked = nil
}

func (m *memory) changed(o resource.Object) bool {
	return !equality.Semantic.DeepEqual(m.last, copyOf(o))
}

func copyOf(o resource.Object) resource.Object {
	if o == nil {
		return nil
	}
	return o.DeepCopyObject().(resource.Object)
}

func fieldsBefore(c *registry.Change) []metav1.ManagedFieldsEntry {
	if c.Object == nil {
		return nil
	}
	return c.Object.GetManagedFields()
}

// checkFields puts the owners of fields back if a webhook has left them unreadable.
func checkFields(c *registry.Change, before []metav1.ManagedFieldsEntry) {
	if c.Object == nil {
		return
	}
	if err := managedfields.ValidateManagedFields(c.Object.GetManagedFields()); err != nil {
		c.Object.SetManagedFields(before)
		c.Tell(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
}
