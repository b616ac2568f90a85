#include "token/byte_alphabet_priv.h"

int byte_alphabet_byte(uint32_t cp)
{
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255))
        return (int)cp;
    if (cp < 0x100 || cp > 0x143) return -1;
    int nth = (int)cp - 0x100; /* of the bytes 0-32, 127, 128-160, 173 */
    return nth < 33 ? nth : nth < 67 ? nth - 33 + 127 : 173;
}

bool byte_alphabet_decode(str piece, char *out, size_t *n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.len;) {
        unsigned char c = (unsigned char)piece.ptr[i];
        int byte;
        if (c < 0x80) {
            byte = c > 32 && c < 127 ? c : -1;
            i++;
        } else {
            /* The alphabet ends at U+0143: only sequences of two bytes. */
            if (c < 0xc2 || c > 0xc5 || i + 1 == piece.len) return false;
            unsigned char d = (unsigned char)piece.ptr[i + 1];
            if ((d & 0xc0) != 0x80) return false;
            byte = byte_alphabet_byte((c & 0x1fu) << 6 | (d & 0x3fu));
            i += 2;
        }
        if (byte < 0) return false;
        out[n++] = (char)byte;
    }
    *n_bytes = n;
    return true;
}
