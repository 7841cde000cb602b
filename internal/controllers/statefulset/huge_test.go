package statefulset_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
)

func TestASetOfTheLargestSizeIsHandledLikeAnyOther(t *testing.T) {
	// As many pods as there is room for: of those that do not wait for each other, more than one sync makes.
	for policy, room := range map[appsv1.PodManagementPolicyType]int32{appsv1.OrderedReadyPodManagement: 20, appsv1.ParallelPodManagement: 510} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := prepare(t)
				c.nodes.Count = 1
				var made atomic.Int32
				c.server.Intercept(func(r *http.Request) error {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") && made.Add(1) > room {
						return errors.New("no room for more pods")
					}
					return nil
				}, nil)
				c.run()
				c.create(math.MaxInt32, func(s *appsv1.StatefulSet) {
					s.Spec.PodManagementPolicy = policy
					s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: math.MaxInt32 - 1} // the ordinals need more than 32 bits
					s.Spec.VolumeClaimTemplates = nil
				})
				c.settle()
				if n := len(c.pods()); n != int(room) {
					t.Errorf("%d pods", n)
				}
				if s := c.set().Status; s.Replicas != room || s.AvailableReplicas != room {
					t.Errorf("the status counts %d pods, %d of them available", s.Replicas, s.AvailableReplicas)
				}
				c.edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) })
				c.server.Intercept(nil, nil)
				c.settle()
				c.expect("web-2147483646 web-2147483647")
			})
		})
	}
}
