package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantities(all map[corev1.ResourceName]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range all {
		list[name] = resource.MustParse(text)
	}
	return list
}

func TestResourcesThatOthersAnnounceStay(t *testing.T) {
	facts := &Facts{
		Name: "n", Capacity: quantities(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi"}),
		Reserved: quantities(map[corev1.ResourceName]string{"cpu": "1"}),
	}
	status := corev1.NodeStatus{
		Capacity:    quantities(map[corev1.ResourceName]string{"cpu": "2", "example.com/dongle": "3", "hugepages-2Mi": "4Mi"}),
		Allocatable: quantities(map[corev1.ResourceName]string{"cpu": "2", "example.com/other": "1"}),
	}
	facts.fill(&status, time.Now())
	if want := quantities(map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "example.com/dongle": "3"}); !equality.Semantic.DeepEqual(status.Capacity, want) {
		t.Errorf("capacity is %v, want %v", status.Capacity, want)
	}
	if want := quantities(map[corev1.ResourceName]string{"cpu": "3", "memory": "8Gi", "example.com/dongle": "3"}); !equality.Semantic.DeepEqual(status.Allocatable, want) {
		t.Errorf("allocatable is %v, want %v", status.Allocatable, want)
	}
}
