// Compiles the functions of fmt, once, into what we ship. So libzf_runtime.so, zf-optimizer and zf-tune run
// on a system that has another release of fmt, or none: libfmt.so changes its name with each major version.
//
// This is what fmt's own library is made of: its header of implementations, and those templates that its
// other headers declare as compiled elsewhere.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template locale_ref::locale_ref(const std::locale& locale);
template std::locale locale_ref::get<std::locale>() const;
template auto thousands_sep_impl<char>(locale_ref locale) -> thousands_sep_result<char>;
template char decimal_point_impl<char>(locale_ref locale);
template void buffer<char>::append<char>(const char* begin, const char* end);

}  // namespace detail
FMT_END_NAMESPACE
