package wire

import (
	"encoding/json"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// storedByVersion1 returns an autoscaler as a server that stores version 1 would have stored it.
func storedByVersion1(t *testing.T) []byte {
	t.Helper()
	o := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metaFor("web")}
	o.Spec.MaxReplicas, o.Spec.TargetCPUUtilizationPercentage = 5, new(int32(60))
	b, err := protobuf.Marshal("autoscaling/v1", "HorizontalPodAutoscaler", o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestObjectsStoredInAnotherVersionAreConverted(t *testing.T) {
	k, stored := kindNamed(t, "HorizontalPodAutoscaler"), storedByVersion1(t)
	check := func(form string, o *autoscalingv2.HorizontalPodAutoscaler) {
		t.Helper()
		if len(o.Spec.Metrics) != 1 || *o.Spec.Metrics[0].Resource.Target.AverageUtilization != 60 || o.Spec.MaxReplicas != 5 || o.ResourceVersion != "7" {
			t.Errorf("%s: %+v", form, o)
		}
	}
	o, err := k.Decode(t.Context(), stored, "7")
	if err != nil {
		t.Fatal(err)
	}
	check("decoded", o.(*autoscalingv2.HorizontalPodAutoscaler))

	cached, _ := watchcache.NewObject(watchcache.KindOptions{Prefix: "/registry/horizontalpodautoscalers/", Namespaced: true},
		store.Entry{Key: "/registry/horizontalpodautoscalers/default/web", Value: stored, Revision: 7})
	text, err := JSON(t.Context(), k, cached)
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON autoscalingv2.HorizontalPodAutoscaler
	if err := json.Unmarshal(append([]byte("{"), text...), &fromJSON); err != nil {
		t.Fatal(err)
	}
	check("as JSON", &fromJSON)

	message, err := Proto(t.Context(), k, cached)
	if err != nil {
		t.Fatal(err)
	}
	var fromProto autoscalingv2.HorizontalPodAutoscaler
	if err := fromProto.Unmarshal(message.Append(nil)); err != nil {
		t.Fatal(err)
	}
	check("as protobuf", &fromProto)

	a, err := k.Attributes(stored)
	if err != nil || len(a.Labels) != 4 {
		t.Errorf("labels %q, %v", a.Labels, err)
	}
}

func TestObjectsStoredInAnUnknownVersionAreRefused(t *testing.T) {
	k := kindNamed(t, "HorizontalPodAutoscaler")
	b, err := protobuf.Marshal("autoscaling/v3", "HorizontalPodAutoscaler", &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metaFor("web")})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := k.Decode(t.Context(), b, "7"); err == nil {
		t.Errorf("decoded as %+v", o)
	}
}
