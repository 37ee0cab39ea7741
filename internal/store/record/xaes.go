package record

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// xaes is XAES-256-GCM as C2SP specifies it (c2sp.org/XAES-256-GCM). It encrypts each message with AES-256-GCM under a
// separate key, which is derived from the first half of a 24-byte nonce. Random nonces of 12 bytes, as in GCM, are safe
// for 2³² messages under one key. A store may reach that number after some years. Random nonces of 24 bytes are safe
// for 2⁸⁰ messages.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte
}

const (
	xaesNonce = 24
	xaesTag   = 16
)

func newXAES(key []byte) (x xaes, err error) {
	if x.block, err = aes.NewCipher(key); err != nil {
		return x, err
	}
	x.block.Encrypt(x.k1[:], x.k1[:])
	var top byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		x.k1[i], top = x.k1[i]<<1|top, x.k1[i]>>7
	}
	x.k1[len(x.k1)-1] ^= top * 0b10000111
	return x, nil
}

// message returns the cipher of one message, and the nonce for that cipher.
func (x *xaes) message(nonce []byte) (cipher.AEAD, []byte, error) {
	var key [2 * aes.BlockSize]byte
	for i, half := range [][]byte{key[:aes.BlockSize], key[aes.BlockSize:]} {
		copy(half, []byte{0, byte(i + 1), 'X', 0})
		copy(half[4:], nonce[:12])
		subtle.XORBytes(half, half, x.k1[:])
		x.block.Encrypt(half, half)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, nonce[12:], err
}

// seal appends the ciphertext and its tag to dst. data is authenticated with it.
func (x *xaes) seal(dst, nonce, plain, data []byte) ([]byte, error) {
	gcm, rest, err := x.message(nonce)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(dst, rest, plain, data), nil
}

func (x *xaes) open(nonce, sealed, data []byte) ([]byte, error) {
	gcm, rest, err := x.message(nonce)
	if err != nil {
		return nil, err
	}
	return gcm.Open(nil, rest, sealed, data)
}
