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

func (p *State) setSpecial(key Key, c *resourcev1.ResourceClaim, is bool) {
	pod := SpecialFor(c)
	if pod == "" {
		return
	}
	if is {
		set(&p.special, pod, append(p.special[pod], key))
		return
	}
	left := slices.DeleteFunc(p.special[pod], func(k Key) bool { return k == key })
	if len(left) == 0 {
		delete(p.special, pod)
		return
	}
	p.special[pod] = left
}

// Special returns the claim in the API for a pod's extended resources.
func (p *State) Special(pod types.UID) (*resourcev1.ResourceClaim, bool) {
	keys := p.special[pod]
	if len(keys) == 0 {
		return nil, false
	}
	return p.Claim(keys[0])
}

// Promise lets the devices of a claim count that does not exist yet, until it is kept or broken.
func (p *State) Promise(object *resourcev1.ResourceClaim) {
	p.BreakPromise(object.UID)
	set(&p.promises, object.UID, object)
	p.count(object, true)
}

// BreakPromise frees the devices of a promised claim, if the promise has not been kept.
func (p *State) BreakPromise(uid types.UID) {
	if promised, ok := p.promises[uid]; ok {
		p.count(promised, false)
		delete(p.promises, uid)
	}
}

// KeepPromise replaces a promised claim by the one that was written. That counts as assumed until the API shows it.
func (p *State) KeepPromise(uid types.UID, written *resourcev1.ResourceClaim) {
	key := Key{Namespace: written.Namespace, Name: written.Name}
	c, ok := p.claims[key]
	if ok {
		p.count(c.get(), false)
	} else {
		c = &claim{}
		set(&p.claims, key, c)
	}
	p.BreakPromise(uid)
	c.assumed, c.written = written, true
	c.forget()
	p.count(c.get(), true)
}

// GiveUp forgets an assumed claim that the API has never shown.
func (p *State) GiveUp(key Key) {
	if c, ok := p.claims[key]; ok && c.shown == nil {
		p.Restore(key)
	}
}
