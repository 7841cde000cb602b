package fairness

import (
	"context"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// noteDangling says in the status of each FlowSchema whether its level exists.
func (d *Dispatcher) noteDangling(ctx context.Context, schemas *registry.Storage) {
	all, err := list[*flowcontrolv1.FlowSchema](ctx, schemas)
	if err != nil {
		return // the watch will say so
	}
	there := map[string]bool{}
	for _, l := range d.now.Load().levels {
		there[l.name] = true
	}
	for _, s := range all {
		wanted := danglingCondition(s, there[s.Spec.PriorityLevelConfiguration.Name])
		if sameCondition(s, wanted) {
			continue
		}
		_, _, err := schemas.Update(ctx, "", s.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
			changed := old.DeepCopyObject().(*flowcontrolv1.FlowSchema)
			setCondition(changed, wanted)
			return changed, nil
		}, registry.UpdateOptions{View: "status", WriteOptions: registry.WriteOptions{Manager: "api-priority-and-fairness-config-consumer-v1"}})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			d.o.Logger.Warn("the status of a flow schema could not be written", "schema", s.Name, "error", err)
		}
	}
}

func danglingCondition(s *flowcontrolv1.FlowSchema, exists bool) flowcontrolv1.FlowSchemaCondition {
	c := flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, LastTransitionTime: metav1.Now()}
	level := s.Spec.PriorityLevelConfiguration.Name
	if exists {
		c.Status, c.Reason = flowcontrolv1.ConditionFalse, "Found"
		c.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level)
		return c
	}
	c.Status, c.Reason = flowcontrolv1.ConditionTrue, "NotFound"
	c.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	return c
}

func sameCondition(s *flowcontrolv1.FlowSchema, wanted flowcontrolv1.FlowSchemaCondition) bool {
	for _, c := range s.Status.Conditions {
		if c.Type == wanted.Type {
			return c.Status == wanted.Status && c.Reason == wanted.Reason && c.Message == wanted.Message
		}
	}
	return false
}

func setCondition(s *flowcontrolv1.FlowSchema, wanted flowcontrolv1.FlowSchemaCondition) {
	for i, c := range s.Status.Conditions {
		if c.Type == wanted.Type {
			if c.Status == wanted.Status {
				wanted.LastTransitionTime = c.LastTransitionTime
			}
			s.Status.Conditions[i] = wanted
			return
		}
	}
	s.Status.Conditions = append(s.Status.Conditions, wanted)
}
