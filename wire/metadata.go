package wire

import (
	"bytes"
	"encoding/json"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/watchcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metadata reads an object's metadata alone, under the given resource version. The rest is passed over, not decoded.
func Metadata(o *watchcache.Object, rev store.Revision) (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{}
	stored := o.Value()
	var err error
	if bytes.HasPrefix(stored, resource.ProtoMagic) {
		var env resource.Envelope
		if env, err = resource.OpenProto(stored); err == nil {
			err = p.Unmarshal(env.Raw)
		}
	} else {
		err = json.Unmarshal(stored, p)
	}
	p.ResourceVersion = rev.String()
	return p, err
}
