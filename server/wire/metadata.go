package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire/internal/transcode"
)

// Metadata reads an object's metadata alone, under the given resource version. The rest is passed over, not decoded.
func Metadata(o *watchcache.Object, rev store.Revision) (*metav1.PartialObjectMetadata, error) {
	return readMetadata(o.Value(), rev)
}

func readMetadata(stored []byte, rev store.Revision) (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{}
	var err error
	if bytes.HasPrefix(stored, resource.ProtoMagic) {
		var message []byte
		if message, err = resource.MessageOf(stored); err == nil {
			err = p.Unmarshal(message)
		}
	} else {
		err = json.Unmarshal(stored, p)
	}
	p.ResourceVersion = rev.String()
	return p, err
}

// everyEdition is where forms are kept that are the same in all: metadata alone has no version of the kind.
const everyEdition = 0

// MetadataJSON is the JSON form of the object's metadata alone: that of a PartialObjectMetadata.
func MetadataJSON(o *watchcache.Object) ([]byte, error) {
	return o.Form(everyEdition, slotMetadata, func() ([]byte, error) { return makeMetadataJSON(o.Value(), o.Revision) })
}

// DeletedMetadataJSON is the same of what an event deleted, under the event's resource version.
func DeletedMetadataJSON(e *watchcache.Event) ([]byte, error) {
	return e.Form(everyEdition, slotDeletedMetadata, func() ([]byte, error) { return makeMetadataJSON(e.Object.Value(), e.Revision) })
}

// MetadataJSONAt makes the form under another resource version; nothing is kept.
func MetadataJSONAt(o *watchcache.Object, rev store.Revision) ([]byte, error) {
	return makeMetadataJSON(o.Value(), rev)
}

// metadataPlan shows the metadata of any message.
var metadataPlan = sync.OnceValue(func() *transcode.Plan {
	plan, err := transcode.CompileMetadata(reflect.TypeFor[metav1.PartialObjectMetadata]())
	if err != nil {
		return nil
	}
	return plan
})

func makeMetadataJSON(stored []byte, rev store.Revision) ([]byte, error) {
	if bytes.HasPrefix(stored, resource.ProtoMagic) {
		if message, err := resource.MessageOf(stored); err == nil {
			if form, ok := planned(metadataPlan(), message, rev); ok {
				return form, nil
			}
		}
	}
	p, err := readMetadata(stored, rev)
	if err != nil {
		return nil, err
	}
	p.TypeMeta = metav1.TypeMeta{}
	return BodyJSON(p)
}

// MetadataProto makes the protobuf form of an object's metadata alone. It is cut out of the stored bytes, so nothing is
// kept.
func MetadataProto(o *watchcache.Object, rev store.Revision) (Message, error) {
	value := o.Value()
	if bytes.HasPrefix(value, resource.ProtoMagic) {
		message, err := resource.MessageOf(value)
		if err != nil {
			return Message{}, err
		}
		start, end, found := findField(message, numberMetadata)
		if !found {
			return Message{}, errMessage
		}
		return splice(message[start:end], rev.String())
	}
	p, err := readMetadata(value, rev)
	if err != nil {
		return Message{}, err
	}
	form, err := p.Marshal()
	return Whole(form), err
}
