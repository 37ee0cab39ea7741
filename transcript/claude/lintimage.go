package claude

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"

	"github.com/dalsegno/segno/internal/jsonscan"
)

// The limits of the Messages API for images: platform.claude.com/docs/en/build-with-claude/vision.
// The API's errors state the limits in pixels, as quoted in github.com/anthropics/claude-code/issues/49720
// and 4778.
const (
	maxImageBytes  = 5 << 20 // in base64
	maxImageSide   = 8000    // pixels
	manyImages     = 20      // a request with more images has the next limit for each of them
	maxSideOfMany  = 2000
	maxImages      = 100
	maxImageHeader = 512 << 10 // how much of an image is decoded to find its size
)

// image is the size of an image in pixels, zero if it is not known.
type image struct{ width, height int }

// larger reports whether a side is longer than a number of pixels.
func (m image) larger(side int) bool { return m.width > side || m.height > side }

// readImage records the size of an image block and, if the API rejects the image, why. It ignores
// an image whose data is not in the block.
func (b *lintBlock) readImage(line []byte, at jsonscan.Span, span func(jsonscan.Span) jsonscan.Span) {
	b.kind = blockImage
	if jsonscan.Text(jsonscan.Find(line, at, "source", "type").Of(line)) != "base64" {
		return
	}
	data := jsonscan.RawText(jsonscan.Find(line, at, "source", "data").Of(line))
	media := jsonscan.Find(line, at, "source", "media_type")
	if len(data) > maxImageBytes {
		b.leaveOutImage(fmt.Sprintf("the API rejects images of more than 5 MiB in base64; this one has %.1f", float64(len(data))/(1<<20)))
		return
	}
	content, err := decodeStart(data)
	if err != nil {
		b.leaveOutImage("the API rejects the image: its data is no base64")
		return
	}
	found := http.DetectContentType(content)
	b.image, err = imageSize(found, content)
	switch {
	case err != nil:
		b.leaveOutImage("the API rejects the image: it is no PNG, JPEG, GIF or WebP")
	case b.larger(maxImageSide):
		b.leaveOutImage(fmt.Sprintf("the API rejects images with a side of more than %d pixels; this one has %d×%d", maxImageSide, b.width, b.height))
	case !media.IsZero() && jsonscan.Text(media.Of(line)) != found:
		b.why, b.fix, b.text = "the API rejects an image that is of another type than its media_type: it is "+found, span(media), `"`+found+`"`
	}
}

// leaveOutImage replaces the image by a text.
func (b *lintBlock) leaveOutImage(why string) {
	size := ""
	if b.width > 0 {
		size = fmt.Sprintf(" of %d×%d pixels", b.width, b.height)
	}
	b.why, b.fix, b.text = why, b.at, `{"type":"text","text":"[An image`+size+` was here. The API did not accept it.]"}`
}

// decodeStart decodes the beginning of an image.
func decodeStart(data []byte) ([]byte, error) {
	data = data[:min(len(data), maxImageHeader)]
	if len(data) == maxImageHeader {
		data = data[:len(data)/4*4]
	}
	data = bytes.ReplaceAll(data, []byte(`\/`), []byte("/"))
	out := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Decode(out, data)
	if err == nil && n == 0 {
		err = base64.CorruptInputError(0)
	}
	return out[:n], err
}

// imageSize reads the size of an image from its beginning. If the header is longer than data, the
// size is unknown, which is not an error.
func imageSize(media string, data []byte) (size image, err error) {
	switch media {
	case "image/png":
		c, err := png.DecodeConfig(bytes.NewReader(data))
		return image{c.Width, c.Height}, err
	case "image/gif":
		c, err := gif.DecodeConfig(bytes.NewReader(data))
		return image{c.Width, c.Height}, err
	case "image/jpeg":
		c, err := jpeg.DecodeConfig(bytes.NewReader(data))
		if err != nil && len(data) > maxImageHeader/2 {
			return image{}, nil
		}
		return image{c.Width, c.Height}, err
	case "image/webp":
		return webpSize(data), nil
	}
	return image{}, fmt.Errorf("type %s", media)
}

// webpSize reads the size of a WebP image, see developers.google.com/speed/webp/docs/riff_container.
func webpSize(data []byte) image {
	if len(data) < 30 {
		return image{}
	}
	bits := binary.LittleEndian.Uint32(data[24:])
	switch string(data[12:16]) {
	case "VP8X":
		return image{1 + int(bits&0xffffff), 1 + int(binary.LittleEndian.Uint32(data[26:])>>8)}
	case "VP8 ":
		return image{int(binary.LittleEndian.Uint16(data[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(data[28:]) & 0x3fff)}
	case "VP8L":
		bits = binary.LittleEndian.Uint32(data[21:])
		return image{1 + int(bits&0x3fff), 1 + int(bits>>14&0x3fff)}
	}
	return image{}
}
