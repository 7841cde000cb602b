package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SpecialFor returns the pod for whose extended resources a claim was made; "" if it is not such a claim.
func SpecialFor(c *resourcev1.ResourceClaim) types.UID {
	if c == nil || c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
		return owner.UID
	}
	return ""
}

func (s *State) setSpecial(key Key, c *resourcev1.ResourceClaim, is bool) {
	pod := SpecialFor(c)
	if pod == "" {
		return
	}
	if is {
		set(&s.special, pod, append(s.special[pod], key))
		return
	}
	left := slices.DeleteFunc(s.special[pod], func(k Key) bool { return k == key })
	if len(left) == 0 {
		delete(s.special, pod)
		return
	}
	s.special[pod] = left
}

// Special returns the claim in the API for a pod's extended resources.
func (s *State) Special(pod types.UID) (*resourcev1.ResourceClaim, bool) {
	keys := s.special[pod]
	if len(keys) == 0 {
		return nil, false
	}
	return s.Claim(keys[0])
}

// Promise lets the devices of a claim count that does not exist yet, until it is kept or broken.
func (s *State) Promise(object *resourcev1.ResourceClaim) {
	s.BreakPromise(object.UID)
	set(&s.promises, object.UID, object)
	s.count(object, true)
}

// BreakPromise frees the devices of a promised claim, if the promise has not been kept.
func (s *State) BreakPromise(uid types.UID) {
	if promised, ok := s.promises[uid]; ok {
		s.count(promised, false)
		delete(s.promises, uid)
	}
}

// KeepPromise replaces a promised claim by the one that was written. That counts as assumed until the API shows it.
func (s *State) KeepPromise(uid types.UID, written *resourcev1.ResourceClaim) {
	key := Key{Namespace: written.Namespace, Name: written.Name}
	c, ok := s.claims[key]
	if ok {
		s.count(c.get(), false)
	} else {
		c = &claim{}
		set(&s.claims, key, c)
	}
	s.BreakPromise(uid)
	c.assumed, c.written = written, true
	c.forget()
	s.count(c.get(), true)
}

// GiveUp forgets an assumed claim that the API has never shown.
func (s *State) GiveUp(key Key) {
	if c, ok := s.claims[key]; ok && c.shown == nil {
		s.Restore(key)
	}
}
