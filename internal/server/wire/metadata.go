package wire

import (
	"encoding/json"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire/internal/transcode"
)

// Metadata decodes only an object's metadata, with the given resource version. The rest is skipped.
func Metadata(o *watchcache.Object, rev store.Revision) (*metav1.PartialObjectMetadata, error) {
	return readMetadata(o.Value(), rev)
}

func readMetadata(stored []byte, rev store.Revision) (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{}
	var err error
	if protobuf.Enveloped(stored) {
		var message []byte
		if message, err = protobuf.Content(stored); err == nil {
			err = p.Unmarshal(message)
		}
	} else {
		err = json.Unmarshal(stored, p)
	}
	p.ResourceVersion = rev.String()
	return p, err
}

// everyEdition is the edition under which forms of metadata are kept, because they are the same in all versions of a
// kind.
const everyEdition = 0

// MetadataJSON returns the JSON form of the object's PartialObjectMetadata.
func MetadataJSON(o *watchcache.Object) ([]byte, error) {
	return o.Form(everyEdition, slotMetadata, func() ([]byte, error) { return makeMetadataJSON(o.Value(), o.Revision) })
}

// DeletedMetadataJSON returns the same for a deleted object, with the event's resource version.
func DeletedMetadataJSON(e *watchcache.Event) ([]byte, error) {
	return e.Form(everyEdition, slotDeletedMetadata, func() ([]byte, error) { return makeMetadataJSON(e.Object.Value(), e.Revision) })
}

// MetadataJSONAt makes the form with another resource version and does not keep it.
func MetadataJSONAt(o *watchcache.Object, rev store.Revision) ([]byte, error) {
	return makeMetadataJSON(o.Value(), rev)
}

// metadataPlan transcodes the metadata of any message.
var metadataPlan = sync.OnceValue(func() *transcode.Plan {
	plan, err := transcode.CompileMetadata(reflect.TypeFor[metav1.PartialObjectMetadata]())
	if err != nil {
		return nil
	}
	return plan
})

func makeMetadataJSON(stored []byte, rev store.Revision) ([]byte, error) {
	if protobuf.Enveloped(stored) {
		if message, err := protobuf.Content(stored); err == nil {
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

// MetadataProto returns the protobuf form of an object's metadata. It is cut out of the stored bytes, so it need not be
// kept.
func MetadataProto(o *watchcache.Object, rev store.Revision) (Message, error) {
	value := o.Value()
	if protobuf.Enveloped(value) {
		message, err := protobuf.Content(value)
		if err != nil {
			return Message{}, err
		}
		_, metadata, _, found := protobuf.Split(message, numberMetadata)
		if !found {
			return Message{}, errMessage
		}
		return splice(metadata.Whole, rev.String())
	}
	p, err := readMetadata(value, rev)
	if err != nil {
		return Message{}, err
	}
	form, err := p.Marshal()
	return Whole(form), err
}
