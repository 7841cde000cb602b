package kubelet

import (
	"context"
	"runtime"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/gate"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// admit decides whether the node accepts a pod.
func (k *Kubelet) admit(ctx context.Context, pod *corev1.Pod) *worker.Rejection {
	if r := k.underPressure(pod); r != nil {
		return r
	}
	if r := k.forbidSysctls(pod); r != nil {
		return r
	}
	if r := gate.WrongSystem(pod, runtime.GOOS); r != nil {
		return r
	}
	if r := k.giveDevices(ctx, pod); r != nil {
		k.takeDevices(pod)
		return r
	}
	r := k.fits(ctx, pod)
	if r == nil {
		r = forbidArmor(pod, k.unarmored)
	}
	if r != nil {
		k.takeDevices(pod)
	}
	return r
}

// fits decides whether the node has room for a pod, and is one of those that the pod asks for.
func (k *Kubelet) fits(ctx context.Context, pod *corev1.Pod) *worker.Rejection {
	taken, claim, room := k.taken(pod), gate.ClaimOf(pod), k.room()
	if r := taken.Refuse(&claim, &room); r != nil {
		return r
	}
	if k.config.Static(pod) || k.self == nil {
		return nil
	}
	n, ok := k.self.Lookup(informer.Key{Name: k.options.Name})
	if !ok {
		return nil
	}
	return gate.Rejection(ctx, k.options.Clients.Kube, pod, n)
}

// taken returns the resources that all other pods have.
func (k *Kubelet) taken(pod *corev1.Pod) gate.Taken {
	others := slices.DeleteFunc(k.config.Pods(), func(p *corev1.Pod) bool {
		return p.UID == pod.UID || demand.Finished(p.Status.Phase) || !k.crew.Admitted(p)
	})
	var taken gate.Taken
	for _, p := range others {
		c := gate.ClaimOf(k.crew.Granted(p))
		taken.Add(&c)
	}
	return taken
}

func (k *Kubelet) allocatable() corev1.ResourceList {
	f := k.facts()
	return f.Node(now()).Status.Allocatable
}

func (k *Kubelet) room() gate.Room { return gate.RoomOf(k.allocatable()) }
