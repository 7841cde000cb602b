package aggregation

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// manager is whom the fields belong to that this package writes.
const manager = "kube-apiserver"

// setCondition writes a condition, if it is another one than before. Its time is when its status changed.
func setCondition(ctx context.Context, s *registry.Storage, name string, now v1.APIServiceCondition) error {
	_, _, err := s.Update(ctx, "", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*v1.APIService)
		now.LastTransitionTime = metav1.Time{Time: time.Now()}
		before := conditionOf(o)
		if before == nil {
			o.Status.Conditions = append(o.Status.Conditions, now)
			return o, nil
		}
		if before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
		*before = now
		return o, nil
	}, registry.UpdateOptions{View: "status", WriteOptions: registry.WriteOptions{Manager: manager}})
	return err
}
