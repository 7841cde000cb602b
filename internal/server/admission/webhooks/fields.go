package webhooks

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/millrace/millrace/internal/server/registry"
)

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
